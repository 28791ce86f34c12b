//! What application a matrix of the corpus comes from, after the index of the corpus.

use std::fmt;
use std::str::FromStr;

use super::Group;

/// The application that a matrix comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Circuit simulation.
    Circuit,
    /// Power flow and optimal power flow.
    Power,
    /// Fluid dynamics, convection and diffusion.
    Cfd,
    /// Finite elements: structures, electromagnetics, control of such systems.
    Fem,
    /// Chemical processes.
    Chem,
    /// Economic models and queues.
    Econ,
    /// Saddle-point systems of quadratic programs and interior-point methods.
    Kkt,
    /// Anything else, and whatever this table does not know.
    Other,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Circuit,
        Self::Power,
        Self::Cfd,
        Self::Fem,
        Self::Chem,
        Self::Econ,
        Self::Kkt,
        Self::Other,
    ];

    /// The name that options and results use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Circuit => "circuit",
            Self::Power => "power",
            Self::Cfd => "cfd",
            Self::Fem => "fem",
            Self::Chem => "chem",
            Self::Econ => "econ",
            Self::Kkt => "kkt",
            Self::Other => "other",
        }
    }

    /// The kind of the matrix `name` of `group`: the folder of `dev`, and a table for the collection.
    pub fn of(group: &Group, name: &str) -> Self {
        match group {
            Group::Dev(folder) => folder.parse().unwrap_or(Self::Other),
            Group::Collection => {
                let listed = COLLECTION.iter().find(|(_, names)| names.contains(&name));
                listed.map_or(Self::Other, |(kind, _)| *kind)
            }
            Group::Degenerate => Self::Other,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is none of [`Kind::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKind(pub String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Kind::ALL.map(Kind::name).join(", ");
        write!(f, "{} is none of {names}", self.0)
    }
}

impl std::error::Error for UnknownKind {}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

/// The matrices of the collection whose application is known.
const COLLECTION: &[(Kind, &[&str])] = &[
    (
        Kind::Circuit,
        &[
            "G3_circuit",
            "add32",
            "adder_dcop_05",
            "circuit204",
            "fpga_dcop_01",
            "memplus",
            "rajat05",
            "rajat11",
        ],
    ),
    (
        Kind::Power,
        &[
            "494_bus",
            "662_bus",
            "ACTIVSg200_AC_renum_01",
            "ACTIVSg200_AC_renum_02",
            "bcspwr06",
            "bcspwr07",
            "bcspwr08",
            "bcspwr09",
            "bcspwr10",
            "pf_1354pegase_J",
            "pf_2869pegase_J",
            "pf_300_J",
            "pf_6515rte_J",
            "pf_ACTIVSg10k_J",
            "pf_ACTIVSg2000_J",
            "pf_ACTIVSg25k_J",
            "pf_ACTIVSg70k_J",
            "pwr01b",
            "qh1484",
            "qh882",
        ],
    ),
    (
        Kind::Cfd,
        &[
            "e05r0500",
            "fidapex6",
            "olm1000",
            "olm500",
            "orsreg_1",
            "pyamg_recirc_flow",
            "sherman1",
            "steam2",
            "watt_2",
        ],
    ),
    (
        Kind::Fem,
        &[
            "ani4",
            "bcsstk01",
            "bcsstk02",
            "bcsstk09",
            "bcsstk16",
            "bcsstk33",
            "commanche_dual",
            "dwt_1005",
            "dwt_878",
            "dwt_992",
            "nos5",
            "pts5ldd03",
            "pyamg_LDG_diffusion",
            "pyamg_airfoil",
            "pyamg_bar",
            "pyamg_unit_cube",
            "pyamg_unit_square",
        ],
    ),
    (
        Kind::Chem,
        &["b1_ss", "bayer10", "impcol_a", "west0067", "west0479"],
    ),
    (Kind::Econ, &["mbeacxc"]),
    (
        Kind::Kkt,
        &[
            "YAO_faer",
            "ip_aug2d_K0",
            "ip_aug2d_K5",
            "ip_aug3d_K0",
            "ip_aug3dc_K0",
            "ip_aug3dcqp_K5",
            "ip_cvxqp3_m_K0",
            "ip_cvxqp3_m_K5",
            "ip_gouldqp2_K5",
            "ip_gouldqp3_K5",
            "ip_mosarqp1_K5",
            "ip_primal4_K5",
            "ip_qpcboei1_K5",
            "ip_qpcstair_K5",
            "ip_stcqp1_K0",
            "ip_stcqp1_K5",
            "ip_yao_K5",
            "mm_aug2d_kkt",
            "mm_aug3d_kkt",
            "mm_aug3dcqp_kkt",
            "mm_boyd1_kkt",
            "mm_boyd2_kkt",
            "mm_cont_100_kkt",
            "mm_cont_101_kkt",
            "mm_cont_200_kkt",
            "mm_cvxqp2_l_kkt",
            "mm_cvxqp3_l_kkt",
            "mm_laser_kkt",
            "mm_powell20_kkt",
            "mm_q25fv47_kkt",
            "mm_qpilotno_kkt",
            "mm_qship12l_kkt",
            "mm_stadat3_kkt",
            "mm_ubh1_kkt",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("nothing".parse::<Kind>().is_err());
    }

    #[test]
    fn folders_and_the_table_tell_the_kind() {
        let dev = |folder: &str| Group::Dev(folder.to_owned());
        assert_eq!(Kind::of(&dev("circuit"), "mult8_nor_t1"), Kind::Circuit);
        assert_eq!(Kind::of(&dev("new"), "unheard_of"), Kind::Other);
        assert_eq!(Kind::of(&Group::Collection, "memplus"), Kind::Circuit);
        assert_eq!(Kind::of(&Group::Collection, "pf_300_J"), Kind::Power);
        assert_eq!(Kind::of(&Group::Collection, "cage8"), Kind::Other);
        assert_eq!(Kind::of(&Group::Degenerate, "kahan"), Kind::Other);
    }

    #[test]
    fn no_matrix_is_listed_twice() {
        let mut names: Vec<&str> = COLLECTION
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
